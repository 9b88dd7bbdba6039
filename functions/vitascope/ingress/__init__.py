"""The HTTP door: requests in, job records and video bytes out. Everything durable is somewhere else.

Any number of replicas may serve at once: what one knows beyond the ledger and the store is a read model that each
builds for itself. FastAPI and uvicorn are imported here only.
"""

from vitascope.ingress.app import create_app
from vitascope.ingress.door import IngressDeps

__all__ = ["IngressDeps", "create_app"]
