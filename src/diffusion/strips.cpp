// Which rows go where, and their sum.
#include "diffusion/strips.h"

#include <algorithm>

#include "kernels/blend.h"

namespace cirrus::diffusion {
namespace {

std::int64_t start_of(const TileAxis& axis, std::int64_t tile) { return axis.starts[static_cast<std::size_t>(tile)]; }

}  // namespace

std::vector<Strip> cut_strips(const TileAxis& rows, std::int64_t count) {
  const std::int64_t n = std::clamp<std::int64_t>(count, 1, rows.count());
  std::vector<Strip> strips;
  for (std::int64_t s = 0, first = 0; s < n; ++s) {
    Strip& strip = strips.emplace_back();
    strip.first = first;
    strip.count = rows.count() / n + (s < rows.count() % n ? 1 : 0);
    first += strip.count;
    strip.begin = start_of(rows, strip.first);
    strip.end = start_of(rows, first - 1) + rows.tile;
    strip.own_end = first < rows.count() ? start_of(rows, first) : rows.length;
  }
  return strips;
}

TileAxis split_window(std::int64_t length, std::int64_t count, std::int64_t radius, std::int64_t alignment) {
  const auto round_up = [&](std::int64_t n) { return (n + alignment - 1) / alignment * alignment; };
  for (std::int64_t n = count; n > 1; --n) {
    const std::int64_t shared = round_up(2 * radius), stride = round_up((length - shared + n - 1) / n);
    if (stride >= alignment && length > shared && shared + stride < length)
      return plan_axis(length, shared + stride, -1, true, radius, alignment);
  }
  return plan_axis(length, 0, -1, false, radius, alignment);
}

Seams::Seams(const TileAxis& rows, const TileAxis& columns, std::vector<Strip> strips, std::size_t own,
             Exchange exchange, const at::Device& device)
    : all_rows_(rows),
      columns_(columns),
      strips_(std::move(strips)),
      own_(own),
      exchange_(std::move(exchange)),
      to_(strips_.size()),
      from_(strips_.size()),
      row_weights_(weights_of(rows, device)),
      column_weights_(weights_of(columns, device)) {
  inner_begin_ = own_ > 0 ? std::max(strip().begin, strips_[own_ - 1].end) : strip().begin;
  inner_end_ = own_ + 1 < strips_.size() ? std::min(strip().end, strips_[own_ + 1].begin) : strip().end;
  inner_end_ = std::max(inner_begin_, inner_end_);  // a strip of seams alone
  for (std::size_t s = 0; s < strips_.size(); ++s) {
    plan(own_, s, to_[s]);
    plan(s, own_, from_[s]);
  }
}

/// The rows of `from`'s windows that lie in the strip `to`; of its own windows, those that lie in a seam.
void Seams::plan(std::size_t from, std::size_t to, std::vector<Piece>& pieces) const {
  const auto add = [&](std::int64_t tile_row, std::int64_t first, std::int64_t last) {
    const std::int64_t start = start_of(all_rows_, tile_row), begin = std::max(start, first),
                       end = std::min(start + all_rows_.tile, last);
    if (begin >= end) return;
    const std::int64_t offset =
        pieces.empty() ? 0 : pieces.back().offset + columns_.count() * pieces.back().height() * columns_.tile;
    pieces.push_back({tile_row, begin, end, offset});
  };
  const Strip &sender = strips_[from], &receiver = strips_[to];
  for (std::int64_t t = sender.first; t < sender.first + sender.count; ++t) {
    if (from != to) {
      add(t, receiver.begin, receiver.end);
    } else {
      add(t, receiver.begin, inner_begin_);
      add(t, inner_end_, receiver.end);
    }
  }
}

TileAxis Seams::rows() const {
  TileAxis mine;
  mine.length = strip().end - strip().begin;
  mine.tile = all_rows_.tile;
  for (std::int64_t t = strip().first; t < strip().first + strip().count; ++t) {
    mine.starts.push_back(start_of(all_rows_, t) - strip().begin);
    mine.weights.push_back(all_rows_.weights[static_cast<std::size_t>(t)]);
  }
  return mine;
}

std::vector<std::int64_t> Seams::counts(const std::vector<std::vector<Piece>>& pieces, std::int64_t members) const {
  std::vector<std::int64_t> all;
  for (const std::vector<Piece>& list : pieces) {
    std::int64_t rows = 0;
    for (const Piece& piece : list) rows += piece.height();
    all.push_back(rows * columns_.count() * columns_.tile * members);
  }
  return all;
}

/// A piece of each window of its tile row, [columns x members, height, tw], in what goes to or comes from a strip.
at::Tensor Seams::view(const at::Tensor& flat, const Piece& piece, std::int64_t members) const {
  const std::int64_t windows = columns_.count() * members, size = piece.height() * columns_.tile;
  return flat.narrow(0, piece.offset * members, windows * size).view({windows, piece.height(), columns_.tile});
}

at::Tensor Seams::outgoing(std::int64_t members) const {
  std::int64_t total = 0;
  for (const std::int64_t n : counts(to_, members)) total += n;
  return at::empty({total}, row_weights_.options());
}

void Seams::take(const at::Tensor& estimate, std::int64_t first_window, const at::Tensor& row_weights,
                 const at::Tensor& column_weights, at::Tensor& field, const at::Tensor& sent) const {
  const std::int64_t members = field.size(0), windows = columns_.count() * members;  // of a tile row
  const std::vector<std::int64_t> sizes = counts(to_, members);
  for (std::int64_t done = 0, n = 0; done < estimate.size(0); done += n) {
    const std::int64_t number = first_window + done, tile_row = strip().first + number / windows,
                       in_row = number % windows, start = start_of(all_rows_, tile_row);
    n = std::min(estimate.size(0) - done, windows - in_row);
    const at::Tensor run = estimate.narrow(0, done, n);
    std::int64_t offset = 0;
    for (std::size_t s = 0; s < to_.size(); offset += sizes[s++])
      for (const Piece& piece : to_[s])
        if (piece.tile_row == tile_row)
          view(sent.narrow(0, offset, sizes[s]), piece, members)
              .narrow(0, in_row, n)
              .copy_(run.squeeze(1).narrow(1, piece.begin - start, piece.height()));
    const std::int64_t begin = std::max(start, inner_begin_), end = std::min(start + all_rows_.tile, inner_end_);
    if (begin >= end) continue;
    std::vector<std::int64_t> of_member, at_column;
    for (std::int64_t i = in_row; i < in_row + n; ++i) {
      of_member.push_back(i % members);
      at_column.push_back(start_of(columns_, i / members));
    }
    kernels::blend_windows(field, run.narrow(2, begin - start, end - begin), of_member,
                           std::vector<std::int64_t>(of_member.size(), begin - strip().begin), at_column,
                           row_weights.narrow(0, done, n).narrow(1, begin - start, end - begin),
                           column_weights.narrow(0, done, n));
  }
}

void Seams::join(at::Tensor& field, const at::Tensor& sent) const {
  const std::int64_t members = field.size(0);
  const std::vector<std::int64_t> sizes = counts(from_, members);
  std::int64_t total = 0;
  for (const std::int64_t n : sizes) total += n;
  const at::Tensor received = at::empty({total}, sent.options());
  exchange_(received, sizes, sent, counts(to_, members));
  std::vector<std::int64_t> of_member, at_column;
  for (std::int64_t i = 0; i < columns_.count() * members; ++i) {
    of_member.push_back(i % members);
    at_column.push_back(start_of(columns_, i / members));
  }
  const at::Tensor across = column_weights_.repeat_interleave(members, 0);
  std::int64_t offset = 0;
  for (std::size_t s = 0; s < from_.size(); offset += sizes[s++])
    for (const Piece& piece : from_[s]) {
      const at::Tensor windows = view(received.narrow(0, offset, sizes[s]), piece, members).unsqueeze(1);
      const at::Tensor down =
          row_weights_[piece.tile_row].narrow(0, piece.begin - start_of(all_rows_, piece.tile_row), piece.height());
      kernels::blend_windows(field, windows, of_member,
                             std::vector<std::int64_t>(of_member.size(), piece.begin - strip().begin), at_column,
                             down.unsqueeze(0).expand({windows.size(0), -1}), across);
    }
}

}  // namespace cirrus::diffusion
