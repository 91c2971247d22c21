"""The bus, the database, the graph and the models."""
