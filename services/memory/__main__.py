"""Run the memory service: `python -m services.memory`."""

from services.memory.app import main

if __name__ == "__main__":
    main()
