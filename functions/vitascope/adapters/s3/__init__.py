"""The object store on any S3 server, through the MinIO client."""

from vitascope.adapters.s3.bucket import ensure_bucket
from vitascope.adapters.s3.client import S3Client
from vitascope.adapters.s3.store import S3ObjectStore

__all__ = ["S3Client", "S3ObjectStore", "ensure_bucket"]
