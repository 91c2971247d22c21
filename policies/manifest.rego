# The capability manifest of the agent that makes the call: what this agent may do, whoever it acts for.
package placet.manifest

import data.tables

# A person calls over HTTP: there is no agent to bound. Naming either one brings the manifest back.
default agentless := false

agentless if {
	input.context.channel == "http"
	object.get(input.context, "agent", null) == null
	object.get(input.context, "manifest", null) == null
}

entry := tables.manifests[input.context.manifest] if {
	input.context.agent in tables.manifests[input.context.manifest].agents
}

names(_) if agentless

names(tool) if tool in entry.tools

default covers := false

covers if agentless

covers if {
	input.action.name in entry.tools
	domain in entry.domains
	input.action.properties.effect in entry.effects
}

# The policy's own table says where a tool belongs; a tool it does not list says so itself.
domain := tables.tools[input.action.name].domain if tables.tools[input.action.name]

domain := input.action.properties.domain if not tables.tools[input.action.name]
