# Duties that are no tool calls: the directory, the audit record, settling an unknown effect, managing documents.
package placet.admin

import data.placet.subject
import data.tables

default decision := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["default_deny"]}

decision := {"allowed": true, "visible": true, "code": null, "reasons": []} if {
	dutiful
	not own_effect
} else := {"allowed": false, "visible": true, "code": "permission_denied", "reasons": ["own_effect"]} if {
	dutiful
	own_effect
} else := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["subject_inactive"]} if {
	not subject.active
} else := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["other_tenant"]} if {
	not subject.owns_resource
} else := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["not_readable"]} if {
	not reachable
} else := {"allowed": false, "visible": true, "code": "permission_denied", "reasons": ["not_yours_to_manage"]} if {
	knowledge_resource
	not dutied
} else := {"allowed": false, "visible": false, "code": "not_found", "reasons": ["role_grants_no_such_duty"]} if {
	not dutied
}

dutiful if {
	subject.active
	subject.owns_resource
	reachable
	dutied
}

dutied if input.action.name in subject.duties

# Who owns a knowledge base or a document manages it, as far as the table goes and as long as they read documents at all.
dutied if {
	input.action.name in tables.limits.owner_duties
	subject.reads_knowledge
	some owner in input.resource.properties.owners
	owner == input.subject.id
}

knowledge_resource if input.resource.type == "knowledge_base"

knowledge_resource if input.resource.type == "document"

# What one cannot read, one does not manage: to its administrator, too, it does not exist.
reachable if not knowledge_resource

reachable if input.resource.properties.readable == true

# Nobody says what became of the call they asked for themselves.
own_effect if {
	input.action.name == "effects.settle"
	input.resource.properties.requester == input.subject.id
}
