// The members of an ensemble as the network draws them, in the transform, before they are made to agree with the data.
#pragma once

#include "enhance/enhancer.h"
#include "enhance/model.h"
#include "enhance/ranks.h"
#include "enhance/shares.h"

namespace cirrus::enhance {

/// T of the members of this rank's team on the rank that holds them, [N, H, W] float64; elsewhere no members, [0, H,
/// W]. `members`: those of `shares` ("mean": one). With as many windows and members at once as the device's memory
/// holds: fewer, where `layout`'s do not fit; told in `layout`. All ranks call it.
at::Tensor sample_members(const Prepared& prepared, Model& model, const EnhanceOptions& options, Layout& layout,
                          const Shares& shares, Ranks& ranks);

/// T of the network's own estimate of what members average to, on the lead, [H, W] float64: one evaluation at the
/// highest noise level, by all ranks together where the map has tiles. All ranks call it.
at::Tensor estimate_mean(const Prepared& prepared, Model& model, const EnhanceOptions& options, Layout& layout,
                         const Shares& shares, Ranks& ranks);

}  // namespace cirrus::enhance
