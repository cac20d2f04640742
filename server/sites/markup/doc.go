// Package markup reads what strangers' sites send as browsers do: by the encoding and the
// type that an answer has, whatever it is called. It takes time and memory at most linear
// in the size of what it reads, and accepts every input.
//
//   - text.go: [Text] gives text in UTF-8
//   - tokens.go: [Tokens] reads a page token by token, as HTML or as XML by its type; a tree
//     of a stranger's markup may be as deep as it is long
//   - xml.go: [XML] reads a document in XML token by token
package markup
