package bolt

import (
	"encoding/json"

	bbolt "go.etcd.io/bbolt"

	"github.com/unweaver/unweaver/internal/store/coordination"
)

// savedQuota is what a subject had used on a day.
type savedQuota struct {
	Day  int64            `json:"day"`
	Used coordination.Use `json:"used"`
}

func (s *Store) saveQuota(subject string, day int64, used coordination.Use) error {
	raw, err := json.Marshal(savedQuota{day, used})
	if err != nil {
		return err
	}
	return s.put(quotaBucket, subject, raw)
}

// loadQuotas reads what subjects used before a restart. What a reservation took that was not settled stays counted.
func (s *Store) loadQuotas() error {
	return s.viewStore(func(tx *bbolt.Tx) error {
		return tx.Bucket(quotaBucket).ForEach(func(subject, raw []byte) error {
			var saved savedQuota
			if err := json.Unmarshal(raw, &saved); err != nil {
				return err
			}
			s.Restore(string(subject), saved.Day, saved.Used)
			return nil
		})
	})
}
