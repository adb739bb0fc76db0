"""The dtypes that an `Array` can have."""

DTYPES = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128"),
}
