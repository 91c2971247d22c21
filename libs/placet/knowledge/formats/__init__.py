"""One file format per module: bytes to blocks. Imported only in the parser's child process."""
