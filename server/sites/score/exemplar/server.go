package exemplar

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Server serves sites over TLS on the loopback, with a certificate of an
// authority that was made for it and exists nowhere else.
type Server struct {
	// Addr is where it listens.
	Addr netip.AddrPort
	// Roots is its certificate, PEM.
	Roots  []byte
	server *http.Server
}

// Serve starts a server that proves to be each of hosts, of which the first label
// may be "*".
func Serve(sites http.Handler, hosts ...string) (*Server, error) {
	roots, leaf, err := certify(hosts)
	if err != nil {
		return nil, fmt.Errorf("exemplar: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("exemplar: %w", err)
	}
	s := &Server{Roots: roots, server: &http.Server{Handler: sites, ReadHeaderTimeout: 10 * time.Second,
		// Clients that do not trust the authority are no news.
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{leaf}, MinVersion: tls.VersionTLS12}}}
	s.Addr = netip.MustParseAddrPort(l.Addr().String())
	go func() { _ = s.server.ServeTLS(l, "", "") }() // ends with Close
	return s, nil
}

// Close ends the server and its connections.
func (s *Server) Close() { _ = s.server.Close() }

// certify makes a certificate for hosts that is its own authority. Only clients with roots
// trust it.
func certify(hosts []string) (roots []byte, leaf tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, leaf, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Webring development authority"},
		DNSNames: hosts, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, leaf, err
	}
	roots = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	return roots, tls.Certificate{Certificate: [][]byte{cert}, PrivateKey: key}, nil
}
