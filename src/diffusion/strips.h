// A field too slow for one process, cut along its rows: each process holds a strip, the rows that its whole tile rows
// span, and evaluates their windows. Rows that windows of several strips cover are a seam: there each process adds up
// all of their estimates, in the order of the windows, so that it holds what one process would hold, to the bit.
#pragma once

#include <functional>

#include "diffusion/tile_axis.h"

namespace cirrus::diffusion {

struct Strip {
  std::int64_t first = 0, count = 0;  ///< tile rows
  std::int64_t begin = 0, end = 0;    ///< pixel rows that their windows span
  std::int64_t own_end = 0;           ///< rows from `begin` to it are this strip's where strips are joined to a field
};

/// `count` strips (at most as many as there are tile rows) of as equal numbers of tile rows as can be, from the top.
std::vector<Strip> cut_strips(const TileAxis& rows, std::int64_t count);

/// Windows for a field that is one window: `count` at most, that overlap exactly (twice `radius`, hard cuts) and are as
/// small as they can be. One window where the field is too short for two.
TileAxis split_window(std::int64_t length, std::int64_t count, std::int64_t radius, std::int64_t alignment);

/// Elements of `sent` go to the process of each strip, those of `received` come from each, so many as said, in the
/// order of the strips (an all-to-all). Flat float32 tensors on the device of the field.
using Exchange = std::function<void(const at::Tensor& received, const std::vector<std::int64_t>& received_counts,
                                    const at::Tensor& sent, const std::vector<std::int64_t>& sent_counts)>;

/// One strip, and what its process exchanges with others in each evaluation.
class Seams {
public:
  /// `own`: index of this process's strip.
  Seams(const TileAxis& rows, const TileAxis& columns, std::vector<Strip> strips, std::size_t own, Exchange exchange,
        const at::Device& device);

  const Strip& strip() const { return strips_[own_]; }
  /// The strip's own windows, with pixel rows counted from its first.
  TileAxis rows() const;

  /// Room for what one evaluation of so many members sends.
  at::Tensor outgoing(std::int64_t members) const;
  /// Estimates [K, 1, th, tw] of consecutive windows, numbered tile row by tile row, column by column, member by
  /// member: adds what no other strip sees to `field` [M, 1, rows, W], and leaves the rest in `sent`. Weights: [K, th],
  /// [K, tw].
  void take(const at::Tensor& estimate, std::int64_t first_window, const at::Tensor& row_weights,
            const at::Tensor& column_weights, at::Tensor& field, const at::Tensor& sent) const;
  /// Exchanges, and adds what windows of all strips say of the seams to `field`.
  void join(at::Tensor& field, const at::Tensor& sent) const;

private:
  /// Rows of the windows of one tile row.
  struct Piece {
    std::int64_t tile_row = 0, begin = 0, end = 0;
    std::int64_t offset = 0;  ///< elements before it, of one member
    std::int64_t height() const { return end - begin; }
  };
  void plan(std::size_t from, std::size_t to, std::vector<Piece>& pieces) const;
  std::vector<std::int64_t> counts(const std::vector<std::vector<Piece>>& pieces, std::int64_t members) const;
  at::Tensor view(const at::Tensor& flat, const Piece& piece, std::int64_t members) const;

  const TileAxis all_rows_, columns_;
  const std::vector<Strip> strips_;
  const std::size_t own_;
  const Exchange exchange_;
  std::int64_t inner_begin_ = 0, inner_end_ = 0;  ///< rows that no other strip covers
  std::vector<std::vector<Piece>> to_, from_;     ///< by strip; its own among them
  at::Tensor row_weights_, column_weights_;       ///< [windows of the axis, tile]
};

}  // namespace cirrus::diffusion
