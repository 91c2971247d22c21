# Inputs for the tests of the other files.
package placet.fixtures

employee := {
	"type": "user",
	"id": "alice",
	"properties": {
		"tenant": "acme",
		"active": true,
		"roles": ["employee", "customer_support"],
		"teams": ["cs-east"],
		"clearance": 1,
	},
}

order := {
	"type": "order",
	"id": "A1001",
	"properties": {"tenant": "acme", "version": "1", "served_by": ["alice"], "currency": "CNY", "paid": "299.00"},
}

nothing := {"type": "none", "id": "none", "properties": {}}

run(route, args) := {
	"args": args,
	"route": route,
	"channel": "chat",
	"agent": "assistant",
	"manifest": "assistant",
	"budget": {"tool_calls": {"used": 0, "limit": 12}, "spend": {"used": 0, "limit": 5000}},
	"influence": {"authors": [], "untrusted_documents": []},
	"approvals": [],
}

search := {
	"subject": employee,
	"action": {
		"name": "search_knowledge",
		"properties": {"sensitivity": "read", "effect": "none", "risk": "low", "stage": "propose", "domain": ""},
	},
	"resource": nothing,
	"context": run("fixed_rag", {"query": "lodging", "k": 5}),
}

refund := {
	"subject": employee,
	"action": {
		"name": "refund_payment",
		"properties": {
			"sensitivity": "write",
			"effect": "irreversible",
			"risk": "critical_funds",
			"stage": "propose",
			"domain": "",
		},
	},
	"resource": order,
	"context": run("business_action", {"order_id": "A1001", "amount": 299}),
}

note := {
	"subject": employee,
	"action": {
		"name": "add_order_note",
		"properties": {"sensitivity": "write", "effect": "reversible", "risk": "high", "stage": "propose", "domain": ""},
	},
	"resource": order,
	"context": run("business_action", {"order_id": "A1001", "note": "called back"}),
}

approver := {"id": "dave", "tenant": "acme", "active": true, "roles": ["finance_approver"]}

obligations := {
	"approver_roles": ["finance_approver"],
	"approvals": 1,
	"requester_may_approve": false,
	"exclude_requester": true,
	"exclude_authors": false,
	"challenge": true,
	"mask": [],
	"ttl_s": 900,
}

proposal := {
	"tenant": "acme",
	"requester": "alice",
	"tool": "refund_payment",
	"risk": "critical_funds",
	"obligations": obligations,
	"given": [],
	"authors": [],
}

decider(person, action) := {
	"subject": {
		"type": "user",
		"id": person.id,
		"properties": object.union(object.remove(person, ["id"]), {"teams": [], "clearance": 0}),
	},
	"action": {"name": action},
	"resource": {"type": "proposal", "id": "p-1", "properties": proposal},
}
