"""Run the approval service: `python -m services.approval`."""

from services.approval.app import main

if __name__ == "__main__":
    main()
