"""Run the tool-executor: `python -m services.tool_executor`."""

from services.tool_executor.app import main

if __name__ == "__main__":
    main()
