//! Sending kernels to the device: one command buffer and one buffer of parameters for all that waits.

use std::sync::{Arc, PoisonError};

use cotan::Result;

use crate::context::Context;
use crate::shader::Dispatch;

/// Sends dispatches to the device, in their order.
pub fn submit(context: &Arc<Context>, waiting: &[Dispatch]) -> Result<()> {
    if waiting.is_empty() {
        return context.check();
    }
    #[cfg(test)]
    if crate::units_test::is_noting() {
        return Ok(());
    }
    let device = &context.device;
    let limits = &context.limits;
    let align = (limits.min_storage_buffer_offset_alignment)
        .max(limits.min_uniform_buffer_offset_alignment) as usize;
    let mut words: Vec<u8> = Vec::new();
    let mut places = Vec::with_capacity(waiting.len());
    for dispatch in waiting {
        let at = words.len().next_multiple_of(align.max(16));
        words.resize(at, 0);
        words.extend(dispatch.params.iter().flat_map(|w| w.to_le_bytes()));
        places.push((at as u64, dispatch.params.len() as u64 * 4));
    }
    // Never the pool's: it is written before these dispatches run.
    let params = {
        let mut kept = context
            .params
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let fits = |buffer: &mut wgpu::Buffer| buffer.size() >= words.len() as u64;
        if let Some(buffer) = kept.take_if(fits) {
            kept.insert(buffer).clone()
        } else {
            let made = device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: (words.len() as u64).next_power_of_two().max(4096),
                usage: wgpu::BufferUsages::UNIFORM
                    | wgpu::BufferUsages::STORAGE
                    | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            context.check()?;
            kept.insert(made).clone()
        }
    };
    context.queue.write_buffer(&params, 0, &words);
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for (dispatch, (at, size)) in waiting.iter().zip(places) {
            let mut entries = vec![wgpu::BindGroupEntry {
                binding: 0,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &params,
                    offset: at,
                    size: std::num::NonZeroU64::new(size),
                }),
            }];
            for (i, buffer) in dispatch.buffers.iter().enumerate() {
                entries.push(wgpu::BindGroupEntry {
                    binding: i as u32 + 1,
                    resource: buffer.as_entire_binding(),
                });
            }
            let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &dispatch.pipeline.layout,
                entries: &entries,
            });
            pass.set_pipeline(&dispatch.pipeline.pipeline);
            pass.set_bind_group(0, &group, &[]);
            let [x, y, z] = dispatch.groups;
            pass.dispatch_workgroups(x, y, z);
        }
    }
    context.queue.submit([encoder.finish()]);
    // Lets go of what has ended.
    let _ = device.poll(wgpu::PollType::Poll);
    context.check()
}
