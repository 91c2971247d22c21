"""The tool-executor: the only door to any tool. Decides nothing itself: policy decides, people agree, it executes."""
