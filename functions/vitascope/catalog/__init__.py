"""The models that the service offers: read once at start, then only looked up.

Imports contracts and nothing else of ours, so that both doors, HTTP and custom resource, can use it.
"""

from vitascope.catalog.catalog import Catalog, CatalogInvalid, load_catalog

__all__ = ["Catalog", "CatalogInvalid", "load_catalog"]
