// A doubly linked list whose links live in its elements: no allocation, O(1) removal of an element
// that is at hand. An element is in at most one list at a time and must leave it before it dies.
// Not thread safe.
#pragma once

#include "penstock/base/assert.h"

namespace penstock {

class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { DASSERT(!linked()); }

  bool linked() const { return next_ != nullptr; }
  void unlink() {
    ASSERT(linked());
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 private:
  template <class T>
  friend class IntrusiveList;
  ListNode* next_ = nullptr;
  ListNode* previous_ = nullptr;
};

// T derives (publicly) from ListNode.
template <class T>
class IntrusiveList {
 public:
  IntrusiveList() { head_.next_ = head_.previous_ = &head_; }
  ~IntrusiveList() {
    DASSERT(empty());
    head_.next_ = head_.previous_ = nullptr;
  }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  bool empty() const { return head_.next_ == &head_; }
  T& front() { return *static_cast<T*>(head_.next_); }
  // The element after `element`, or null at the end; for walking while elements may leave.
  T* next(T& element) { return as_element(static_cast<ListNode&>(element).next_); }
  T* first() { return as_element(head_.next_); }

  void push_back(T& element) { insert_before(head_, element); }
  void push_front(T& element) { insert_before(*head_.next_, element); }
  T* pop_front() {
    if (empty()) return nullptr;
    T& element = front();
    static_cast<ListNode&>(element).unlink();
    return &element;
  }
  // Moves all elements of `other` to the end of this list, in O(1).
  void take_all(IntrusiveList& other) {
    if (other.empty()) return;
    ListNode* first = other.head_.next_;
    ListNode* last = other.head_.previous_;
    other.head_.next_ = other.head_.previous_ = &other.head_;
    first->previous_ = head_.previous_;
    head_.previous_->next_ = first;
    last->next_ = &head_;
    head_.previous_ = last;
  }

 private:
  T* as_element(ListNode* node) { return node == &head_ ? nullptr : static_cast<T*>(node); }
  void insert_before(ListNode& position, ListNode& element) {
    ASSERT(!element.linked());
    element.previous_ = position.previous_;
    element.next_ = &position;
    position.previous_->next_ = &element;
    position.previous_ = &element;
  }

  ListNode head_;
};

}  // namespace penstock
