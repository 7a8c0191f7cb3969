package rowsin

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	arrowflight "github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// idSchema has one column.
func idSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64, Nullable: true}}, nil)
}

// ids returns a batch of rows from one number to another.
func ids(from, to int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, idSchema())
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i)) //nolint:forcetypeassert // the schema above
	}
	return b.NewRecordBatch()
}

// collected keeps the messages that a writer sends.
type collected struct{ sent *[]*arrowflight.FlightData }

// Send implements arrowflight.DataStreamWriter.
func (c collected) Send(m *arrowflight.FlightData) error {
	*c.sent = append(*c.sent, &arrowflight.FlightData{
		FlightDescriptor: m.GetFlightDescriptor(), DataHeader: append([]byte{}, m.GetDataHeader()...), DataBody: append([]byte{}, m.GetDataBody()...),
	})
	return nil
}
