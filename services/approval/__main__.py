"""Run the approval service: `python -m services.approval`; with `rebuild-listing`, make the listing anew and end."""

from services.approval.app import main

if __name__ == "__main__":
    main()
