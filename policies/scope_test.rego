package placet.scope_test

import data.placet.admin
import data.placet.fixtures
import data.placet.knowledge
import data.placet.routes

test_nothing_opens_nothing if {
	scope := knowledge.scope with input as {}
	scope.visible == false
	not scope.principals
	duty := admin.decision with input as {}
	duty.allowed == false
	bound := routes.bound with input as {}
	bound.tools == []
}

test_publish_pair_is_never_automatic_whatever_the_route_table_says if {
	every tool in ["create_publish_proposal", "apply_publish_decision"] {
		not routes.includes(tool) with input as fixtures.search with data.tables.routes.fixed_rag.tools as [tool]
		not routes.includes(tool) with input as fixtures.search
			with data.tables.routes.fixed_rag as {"channels": ["chat"], "all_granted": true, "except": []}
	}
}

test_route_without_channel_is_closed if {
	not routes.open with input as fixtures.search with data.tables.routes.fixed_rag as {"tools": ["search_knowledge"]}
}

test_scope_without_clearance_is_lowest if {
	subject := json.patch(fixtures.employee, [{"op": "remove", "path": "/properties/clearance"}])
	scope := knowledge.scope with input as {"subject": subject}
	scope.principals.clearance == 0
}
