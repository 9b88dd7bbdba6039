"""May it run, and what will it cost: pure functions from a parsed body and a model's entry to a frozen request.

Receives the time and the drawn seed as arguments, touches nothing, and refuses by `VitascopeError` with the name of
the field as the client wrote it. Imports contracts only.
"""

from vitascope.admission.admit import Admitted, admit, choose_model
from vitascope.admission.parse import compute_body_digest, parse_body

__all__ = ["Admitted", "admit", "choose_model", "compute_body_digest", "parse_body"]
