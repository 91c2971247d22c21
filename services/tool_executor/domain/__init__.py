"""Pure decisions of the executor: arguments, facts for policy, packets, the ledger's states, masking."""
