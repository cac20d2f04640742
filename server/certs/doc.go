// Package certs keeps the certificate that a listener shows: one of two files that the
// operator replaces, or one that an authority issues by ACME (RFC 8555).
//
// Whatever takes the place of a certificate is shown on connections that come later;
// those that are open go on. What cannot be used, as a key that does not belong to its
// certificate, leaves the present one in place.
package certs
