package badgerstore

// Merge compacts all tables, as Badger does by itself when there are many.
func (s *Store) Merge() error { return s.db.Flatten(2) }

// Inspect is what a start looks at before Badger does.
var Inspect = inspect
