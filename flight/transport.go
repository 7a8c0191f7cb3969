package flight

import (
	"crypto/tls"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// transport returns how connections are secured: by TLS, whose handshake is limited by handshakeTimeout and follows the
// limits of connections, or not at all. After its handshake, a TLS connection returns the address of the one below it, so
// that connections finds it.
func transport(config *tls.Config) credentials.TransportCredentials {
	if config == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(config)
}
