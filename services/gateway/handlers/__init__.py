"""HTTP: the edge every call passes, then one module per resource."""
