package edgetest

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// Pipes are a listener and its dialer in memory, so that hours pass at once in a bubble of
// package synctest.
type Pipes struct {
	conns chan net.Conn
	ended chan struct{}
	end   sync.Once
}

// NewPipes returns a listener that nothing has dialled yet.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

// Dial connects to the listener.
func (p *Pipes) Dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Accept, Close and Addr are for [net.Listener].
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *Pipes) Close() error {
	p.end.Do(func() { close(p.ended) })
	return nil
}

func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{} }

// Pay has a server serve in a bubble, and sends it a payment. The caller closes the
// connection.
func Pay(t *testing.T, server Server) net.Conn {
	t.Helper()
	public := NewPipes()
	go server.Serve(public)
	t.Cleanup(func() { time.Sleep(2 * time.Hour) }) // for what runs on by itself
	ShutDown(t, server)
	conn, err := public.Dial()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "POST /api/bid HTTP/1.1\r\nHost: ring.example\r\nContent-Type: application/json\r\nAuthorization: Payment x\r\nContent-Length: 2\r\n\r\n{}")
	return conn
}
