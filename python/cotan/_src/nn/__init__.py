"""Pieces of networks: functions of arrays over few primitives, without state."""
