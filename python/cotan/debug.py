"""Tools that look at the process: what it was like before cotan recorded, and what differs."""

from cotan._src.interpose.process_state import ProcessState, process_state, verify_process

__all__ = ["ProcessState", "process_state", "verify_process"]
