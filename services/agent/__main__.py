"""Run the agent service: `python -m services.agent`."""

import os

# Read by LangGraph when it is imported: checkpoints may hold no type that could run code when they are read.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
# Tracing would send questions and evidence to another company's server: nothing to switch on by accident.
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"

from services.agent.app import main

if __name__ == "__main__":
    main()
