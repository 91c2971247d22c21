"""Which model a process uses: the configured endpoint, else the offline model."""

from __future__ import annotations

from services.agent.adapters.models.chat import LangChainModel
from services.agent.adapters.models.offline import NAME, OfflineChatModel
from services.agent.settings import Settings


def choose_model(settings: Settings) -> tuple[LangChainModel, str]:
    """The model and its name. The OpenAI client is imported only when it is used: 1.8 s and 90 MB."""
    if not settings.agent_model_base_url:
        return LangChainModel(OfflineChatModel(), name=NAME), NAME
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(
        model=settings.agent_model,
        base_url=settings.agent_model_base_url,
        # Many local endpoints want no key; the client insists on some text.
        api_key=settings.agent_api_key if settings.agent_api_key.get_secret_value() else (lambda: "none"),
        timeout=settings.agent_model_timeout_s,
        max_retries=0,
        stream_usage=True,
        temperature=0,
    )
    # An endpoint can answer anything: not only errors of the protocol, but text that no client can take apart. Whatever
    # the client makes of it, the model has failed, and the run goes on without it.
    model = LangChainModel(chat, (Exception,), judges=settings.agent_model_judges, name=settings.agent_model)
    return model, settings.agent_model
