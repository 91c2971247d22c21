# Which tools a subject on a route may see: the route, the agent's manifest and the role grants, intersected.
package placet.routes

import data.placet.manifest
import data.placet.subject
import data.tables

default bound := {"tools": [], "code": "permission_denied", "reasons": ["default_deny"]}

bound := {"tools": sort(offered), "code": null, "reasons": []} if {
	subject.active
	open
} else := {"tools": [], "code": "tool_not_allowed", "reasons": ["route_closed"]} if {
	subject.active
} else := {"tools": [], "code": "permission_denied", "reasons": ["subject_inactive"]}

offered contains tool if {
	some tool in subject.granted_tools
	includes(tool)
	manifest.names(tool)
}

# A route is entered through its own channel: a run cannot claim an HTTP route.
default open := false

open if input.context.channel in route.channels

includes(tool) if {
	open
	listed(tool)
	not barred(tool)
}

listed(tool) if tool in route.tools

listed(tool) if {
	route.all_granted == true
	not excepted(tool)
}

excepted(tool) if tool in route.except

route := tables.routes[input.context.route]

# Whatever the route table says, a model is never offered these.
barred(tool) if {
	tool in tables.limits.never_automatic
	not input.context.channel == "http"
}
