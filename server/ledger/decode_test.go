package ledger

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"testing"
	"testing/quick"
	"time"
)

// Reservations are read as encoding/json, which writes them, would read them.
func TestReservationsAreDecodedAsTheyWereEncoded(t *testing.T) {
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewSource(seed))
	for range 1000 {
		var r Reservation
		for _, field := range reflect.ValueOf(&r).Elem().Fields() {
			value := field
			switch field.Interface().(type) {
			case time.Time:
				value = reflect.ValueOf(time.UnixMilli(random.Int63n(4e12)).UTC())
			case json.RawMessage:
				value = reflect.ValueOf(json.RawMessage(`{"a": [1, "\ud800 < "], "a": null}`))
			default:
				value, _ = quick.Value(field.Type(), random)
			}
			if random.Intn(3) > 0 {
				field.Set(value)
			}
		}
		row, err := encodeReservation(&r)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		want := storedReservation{Reservation: &Reservation{}}
		if err := json.Unmarshal(row, &want); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got, err := decodeReservation(row); err != nil || !reflect.DeepEqual(got, want.Reservation) {
			t.Fatalf("seed %d: %v\n%s\n%+v\n%+v", seed, err, row, got, want.Reservation)
		}
	}
}
