"""Language models: any OpenAI-compatible endpoint, or the offline model."""
