"""Checks of what is asked for and of what was made.

A prompt screen reads the text of a request before there is a job; an output screen sees still pictures of a finished
clip before there is an address for it. Each is off until a setting names it. What a screen finds ends in a code that
programs can compare, `prompt_refused` or `output_withheld`, and is never billed.
"""

from vitascope.screen.ports import Finding, OutputScreen, PromptScreen, Still
from vitascope.screen.prompts import check_prompt

__all__ = ["Finding", "OutputScreen", "PromptScreen", "Still", "check_prompt"]
