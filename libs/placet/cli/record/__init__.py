"""The tamper-evident record from the auditor's side: proving it, and taking a copy of it along."""
