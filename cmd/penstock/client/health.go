package client

import (
	"context"
	"crypto/tls"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock/penstock/internal/fault"
)

// Health returns an error unless the server at a URI accepts calls. It does not check the server's
// identity.
func Health(ctx context.Context, uri string) error {
	target, encrypted, err := targetOf(uri)
	if err != nil {
		return err
	}
	transport := insecure.NewCredentials()
	if encrypted {
		transport = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // no secret is sent, so the server's identity does not matter
	}
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(transport))
	if err != nil {
		return fault.InvalidField("uri", "%q: %v", fault.RedactURI(uri), err)
	}
	defer connection.Close() //nolint:errcheck // the connection was used for one question only
	answer, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		return fault.New(fault.Unavailable, "%s does not answer: %s", fault.RedactURI(uri), status.Convert(err).Message()).
			WithRemedy("check that `penstock serve` listens there, with TLS if the URI begins with grpc+tls")
	}
	if answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fault.New(fault.Unavailable, "%s is %s", fault.RedactURI(uri), answer.GetStatus())
	}
	return nil
}
