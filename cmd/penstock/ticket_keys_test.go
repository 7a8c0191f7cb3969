package main

import (
	"os"
	"strings"
	"testing"
	"time"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// TestTicketKeysRotateWithoutRestart checks that a changed key file takes effect, and that an
// invalid one changes nothing.
//
// spec: ticket-14
func TestTicketKeysRotateWithoutRestart(t *testing.T) {
	l := newLake(t, t.TempDir())
	const secretA, secretB = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY="
	const a, b = "a " + secretA + "\n", "b " + secretB + "\n"
	file := l.file(t, "tickets.keys", a)
	server := start(t, "--config", l.config, "--ticket-keys", file)
	client, err := arrowflight.NewClientWithMiddleware(server.address, nil, nil, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	plan := func() *arrowflight.Ticket {
		found, err := client.GetFlightInfo(t.Context(), &arrowflight.FlightDescriptor{Type: arrowflight.DescriptorPATH, Path: []string{"home"}})
		require.NoError(t, err)
		return found.GetEndpoint()[0].GetTicket()
	}
	redeem := func(ticket *arrowflight.Ticket) codes.Code {
		rows, err := client.DoGet(t.Context(), ticket)
		require.NoError(t, err)
		if _, err = rows.Recv(); err != nil {
			return status.Code(err)
		}
		require.NoError(t, rows.CloseSend())
		_ = drained(rows)
		return codes.OK
	}
	signer := func(ticket *arrowflight.Ticket) string { return string(ticket.GetTicket()[5:6]) }
	change := func(text string) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		server.reload(t)
	}

	old := plan()
	require.Equal(t, "a", signer(old))
	change("b short\n" + a)
	require.Equal(t, "the ticket keys", server.stderr.find(t, "changed files cannot be used: the previous content stays in use")["what"])
	require.Equal(t, codes.OK, redeem(old))
	require.Equal(t, "a", signer(plan()))
	change(b + a)
	require.Eventually(t, func() bool { return signer(plan()) == "b" }, time.Minute, 10*time.Millisecond)
	require.Equal(t, codes.OK, redeem(old))
	change(b)
	require.Eventually(t, func() bool { return redeem(old) == codes.FailedPrecondition }, time.Minute, 10*time.Millisecond)
	require.Equal(t, codes.OK, redeem(plan()))
	for _, secret := range []string{secretA, secretB} {
		require.NotContains(t, server.stderr.String(), strings.TrimSuffix(secret, "="))
	}
}
