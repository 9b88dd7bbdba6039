"""The ports of `runtime.ports`, each in its vendor's service, and all of them in one process.

One package a vendor: nothing outside of it imports that vendor's library, and none of its errors leaves it. The
packages do not import each other. Only `wiring` and tests name an adapter.
"""
