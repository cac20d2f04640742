package describe

import "cmp"

const (
	agentCardPath = "/.well-known/agent-card.json"
	// AgentPath is where the ring is an agent of the A2A protocol, and AgentVersion the version of
	// the protocol.
	AgentPath, AgentVersion = "/a2a", "1.0"
	// agentCall is what a client sends, as the data of a part, to have a skill used.
	agentCall = `{"tool":"ring_list","arguments":{"kind":"mcp"}}`
)

// AgentHelp is what the agent answers to words alone.
const AgentHelp = "Send one part whose data names a skill as tool, with its arguments, such as " + agentCall + ". " +
	"The skills read the ring, free. To join, bid or change a listing, use the MCP server at /mcp or HTTP: see /llms.txt."

// agentCard says which A2A agent the ring is: one that reads the ring, by the same tools as the MCP
// server. What is paid or proved is no skill.
//
// Document: the Agent2Agent protocol, version 1.0, "AgentCard".
func agentCard(s *Source) []byte {
	ring := s.ring()
	guide := "/llms.txt"
	if s.has("/docs") {
		guide = "/docs"
	}
	skills := []node{}
	for _, op := range Operations() {
		if op.Tool != "" && op.Method == "GET" {
			about := written().Tools[op.Tool]
			skills = append(skills, node{"id": op.Tool, "name": about.Title, "description": about.About, "tags": []string{"webring", "read"},
				"inputModes": []string{jsonMedia}, "outputModes": []string{jsonMedia}})
		}
	}
	return s.json(node{
		"name": ring.Name, "description": serverAbout + " " + AgentHelp, "version": cmp.Or(s.Version, devel),
		"provider": node{"organization": cmp.Or(ring.Operator.Name, ring.Name), "url": ring.Base + "/"}, "documentationUrl": ring.Base + guide,
		"supportedInterfaces": []node{{"url": ring.Base + AgentPath, "protocolBinding": "JSONRPC", "protocolVersion": AgentVersion}},
		"capabilities":        node{"streaming": false, "pushNotifications": false, "extendedAgentCard": false},
		"defaultInputModes":   []string{jsonMedia, "text/plain"}, "defaultOutputModes": []string{jsonMedia, "text/plain"},
		"skills": skills,
	})
}
