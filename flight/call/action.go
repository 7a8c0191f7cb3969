package call

import (
	"context"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"

	"github.com/penstock/penstock/loader/policy"
)

// Action is one action of DoAction.
type Action struct {
	Name, Description string
	Needs             policy.Permission // the right without which it is refused; Run checks it for what its body names
	Run               func(c *Call, body []byte, stream arrowflight.FlightService_DoActionServer) error
}

// Answering returns the Run of an action that has one result.
func Answering(run func(ctx context.Context, c *Call, body []byte) ([]byte, error)) func(*Call, []byte, arrowflight.FlightService_DoActionServer) error {
	return func(c *Call, body []byte, stream arrowflight.FlightService_DoActionServer) error {
		result, err := run(stream.Context(), c, body)
		if err != nil {
			return err
		}
		return stream.Send(&arrowflight.Result{Body: result})
	}
}
