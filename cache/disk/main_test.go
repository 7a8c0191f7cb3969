package disk

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(killedFolder); folder != "" {
		writeUntilKilled(folder)
		return
	}
	goleak.VerifyTestMain(m)
}
