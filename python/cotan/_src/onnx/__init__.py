"""Export of programs and pullbacks to ONNX."""
