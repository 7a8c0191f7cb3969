package rowsin

import (
	"testing"

	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collected keeps the messages that a writer sends.
type collected struct{ sent *[]*arrowflight.FlightData }

// Send implements arrowflight.DataStreamWriter.
func (c collected) Send(m *arrowflight.FlightData) error {
	*c.sent = append(*c.sent, &arrowflight.FlightData{
		FlightDescriptor: m.GetFlightDescriptor(), DataHeader: append([]byte{}, m.GetDataHeader()...), DataBody: append([]byte{}, m.GetDataBody()...),
	})
	return nil
}
