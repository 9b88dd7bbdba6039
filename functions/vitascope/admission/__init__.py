"""May it run, and what will it cost: pure functions from a parsed body and a model's entry to a frozen request.

Receives the time, the drawn seed and the references as arguments, touches nothing, and refuses by `VitascopeError` with
the name of the field as the client wrote it. Imports contracts only.
"""

from vitascope.admission.admit import Admitted, admit, choose_model
from vitascope.admission.capabilities import FIELDS, MEDIA_FIELDS, check_able, check_known
from vitascope.admission.control import CONTROL_MAX_BYTES, SOURCE_MAX_BYTES, check_control_file, check_source_file
from vitascope.admission.mask_text import MASK_MAX_BYTES, check_mask_upload
from vitascope.admission.parse import compute_body_digest, parse_body
from vitascope.admission.references import MAX_REFERENCES, check_counts, check_together

__all__ = [
    "CONTROL_MAX_BYTES",
    "FIELDS",
    "MASK_MAX_BYTES",
    "MAX_REFERENCES",
    "MEDIA_FIELDS",
    "SOURCE_MAX_BYTES",
    "Admitted",
    "admit",
    "check_able",
    "check_control_file",
    "check_counts",
    "check_known",
    "check_mask_upload",
    "check_source_file",
    "check_together",
    "choose_model",
    "compute_body_digest",
    "parse_body",
]
