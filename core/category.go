package core

import (
	"slices"
	"strings"
)

// categories are those in use. There are few, so they are kept outside the region,
// in ordinary memory.
type categories struct {
	names []string       // in use, sorted
	ids   map[string]int // of those in use
	all   []category     // by id
	free  []int          // ids that are not in use
}

type category struct {
	name    string
	members [kinds]int // in the ring, by kind; 0 for all
}

func newCategories() categories { return categories{ids: map[string]int{}} }

// find gives the id of a category in use.
func (c *categories) find(name string) (id int, ok bool) {
	id, ok = c.ids[name]
	return id, ok
}

// join counts a member of a kind in a category, and gives the category's id.
func (c *categories) join(name string, kind Kind) (id int) {
	id, ok := c.ids[name]
	if !ok {
		name = strings.Clone(name)
		if n := len(c.free); n > 0 {
			id, c.free = c.free[n-1], c.free[:n-1]
		} else {
			id = len(c.all)
			c.all = append(c.all, category{})
		}
		c.all[id] = category{name: name}
		c.ids[name] = id
		i, _ := slices.BinarySearch(c.names, name)
		c.names = slices.Insert(c.names, i, name)
	}
	c.all[id].members[0]++
	c.all[id].members[kind]++
	return id
}

// restore adds the category with the next id. Its members are counted already.
func (c *categories) restore(of category) {
	id := len(c.all)
	c.all = append(c.all, of)
	if of.members[0] == 0 {
		c.free = append(c.free, id)
		return
	}
	c.ids[of.name] = id
	i, _ := slices.BinarySearch(c.names, of.name)
	c.names = slices.Insert(c.names, i, of.name)
}

// leave is the opposite of join.
func (c *categories) leave(name string, kind Kind) (id int) {
	id = c.ids[name]
	members := &c.all[id].members
	members[kind]--
	if members[0]--; members[0] == 0 {
		delete(c.ids, name)
		c.free = append(c.free, id)
		i, _ := slices.BinarySearch(c.names, name)
		c.names = slices.Delete(c.names, i, i+1)
	}
	return id
}
