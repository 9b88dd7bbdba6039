"""What becomes of changes and results: public events, copies of finished records, signed URLs.

Derived from the ledger's feed and never the other way round, so that what is announced and what is true cannot
disagree.
"""

from vitascope.publish.publisher import Publisher
from vitascope.publish.signing import UrlSigner

__all__ = ["Publisher", "UrlSigner"]
