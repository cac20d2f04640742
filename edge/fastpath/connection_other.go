//go:build !(linux && (amd64 || arm64))

package fastpath

func (c *connection) serve() (w *scratch, n int, what outcome, expired bool) {
	return c.serveBlocking()
}

func (c *connection) writeNow(head, body []byte) (restOfHead, restOfBody []byte) { return head, body }
