package describe

import "encoding/json"

// RegistrySchema names the form of the entry of an MCP registry.
const RegistrySchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// RegistryEntry is the server.json with which the MCP server of a ring is published in an MCP
// registry. base is the ring's base URL, without a slash at its end, name its name, and version that
// of the program. What the entry says of the server is what its card says.
//
// Document: the server.json format of the MCP registry, 2025-12-11.
func RegistryEntry(base, name, version string) ([]byte, error) {
	server := serverOf(base, name, version)
	server.Title = shortened(server.Title, cardAbout)
	text, err := json.MarshalIndent(server.entry(RegistrySchema, serverAbout, server.URL+"mcp"), "", "  ")
	return append(text, '\n'), err
}
