#pragma once

#include <godwit/protocols/workload/lengths.hpp>

/// Lengths of two public data sets, from the percentiles that Llumnix (OSDI '24, table 1) gives of them.
///
/// Quantiles 0.5, 0.8, 0.95 and 0.99 are the table's. The others are ours, chosen so that the mean of the whole is the
/// table's too: 306.2, 499.4, 831.0 and 271.8 tokens against 306, 500, 830 and 271.
namespace godwit::protocols::workload {

inline constexpr quantile_length::knot sharegpt_prompt[] = {{0.0, 4},     {0.5, 74},    {0.8, 348}, {0.9, 700},
                                                            {0.95, 1484}, {0.99, 3388}, {1.0, 6144}};
inline constexpr quantile_length::knot sharegpt_answer[] = {{0.0, 20},   {0.25, 290},  {0.5, 487}, {0.8, 781},
                                                            {0.95, 988}, {0.99, 1234}, {1.0, 2048}};
inline constexpr quantile_length::knot burstgpt_prompt[] = {{0.0, 16},    {0.25, 200},  {0.5, 582}, {0.8, 1427},
                                                            {0.95, 2345}, {0.99, 3549}, {1.0, 6144}};
inline constexpr quantile_length::knot burstgpt_answer[] = {{0.0, 8},    {0.25, 90},  {0.5, 243}, {0.8, 434},
                                                            {0.95, 669}, {0.99, 964}, {1.0, 1536}};

} // namespace godwit::protocols::workload
